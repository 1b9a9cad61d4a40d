"""Run folders: their files (no torch), the saved model, and the schema of its description."""
