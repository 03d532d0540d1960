"""Files as code: healthy ones of every form, faults planted in them, and files of which the blame is known."""

from kokoro_nb.studies.inspection_corpus.inspection_corpora import CORPORA, run_corpus, summed, table_row

__all__ = ["CORPORA", "run_corpus", "summed", "table_row"]
