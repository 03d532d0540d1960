"""Comparing sound: waveforms, spectra, transcripts."""
