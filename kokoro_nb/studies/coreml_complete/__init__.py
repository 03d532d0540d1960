"""07: the complete model in one Core ML file, class by class."""
