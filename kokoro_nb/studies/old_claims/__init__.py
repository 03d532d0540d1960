"""22 takes the notes that this project grew from claim by claim, and measures what can be measured here."""

from kokoro_nb.studies.old_claims.claim_answers import COUNT, answer_claims
from kokoro_nb.studies.old_claims.padding_answers import EXACT
from kokoro_nb.studies.old_claims.reported_claims import BLOCKING, DURATION_SHARE
