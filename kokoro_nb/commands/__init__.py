"""The command line: one module for each group of subcommands, each of which adds its own to the parser."""
