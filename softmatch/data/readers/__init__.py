"""Readers of users' files: each gives records, and says what it noticed."""
