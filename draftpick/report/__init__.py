"""Renderings of an advice. Each takes the finished advice and returns text; none prints."""
