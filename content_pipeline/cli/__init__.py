"""The command `content-ai`: one file per command, one module that prints."""
