"""One configuration measured: its models, video, repeats in fresh processes, frames and outputs."""
