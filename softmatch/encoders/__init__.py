"""Pretrained encoders: their folders, their backbones, and their cached features."""
