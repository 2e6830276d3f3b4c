"""Frames of video: who decodes, scales and offers them, and which context takes each."""
