"""Sick and healthy exports as code, each diagnosed and compared with what is known of it."""

from kokoro_nb.studies.diagnosis_corpus.corpus_rows import SEEDS, HealthyRow, SickRow, run_corpus, table_row

__all__ = ["SEEDS", "HealthyRow", "SickRow", "run_corpus", "table_row"]
