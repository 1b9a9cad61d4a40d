"""The run folder (no torch), the saved model, and the schema of its description."""
