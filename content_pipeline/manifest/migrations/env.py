"""Alembic's entry: runs the migrations on the connection it is given, inside the caller's transaction."""

from alembic import context

from content_pipeline.manifest.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, transactional_ddl=False)
context.run_migrations()
