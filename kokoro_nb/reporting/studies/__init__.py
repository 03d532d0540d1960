"""The drawings of results that only one study has, a module for each study of that name."""
