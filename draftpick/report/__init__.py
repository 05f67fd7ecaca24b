"""Renderings: each takes a finished record and returns text; none prints."""
