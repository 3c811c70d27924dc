"""Alembic's migrations, inside the package so that a wheel can bring any store to head."""
