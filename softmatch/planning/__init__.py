"""What a setting would cost on GPUs that need not be here: steps, hours, memory and files (`softmatch plan`)."""
