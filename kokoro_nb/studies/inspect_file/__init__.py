"""21 inspects files alone: what converters made of the bundled voice, or a file of one's own."""

from kokoro_nb.studies.inspect_file.converted_files import ConvertedFile, converted_files
from kokoro_nb.studies.inspect_file.heard_files import HeardFiles, added, heard_decoder, heard_source

__all__ = ["ConvertedFile", "HeardFiles", "added", "converted_files", "heard_decoder", "heard_source"]
