"""reusebench itself on aarch64, the architecture of most boards, on any Linux PC."""
