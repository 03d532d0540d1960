"""What one notebook alone needs, a module or a folder for each notebook."""
