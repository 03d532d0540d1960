"""01: what each patch changes, and what a comparison of waveforms can show at all."""
