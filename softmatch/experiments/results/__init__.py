"""Finished runs of a sheet as statistics, tables and a page."""
