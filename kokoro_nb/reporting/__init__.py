"""Running the notebooks and rendering what they found."""
