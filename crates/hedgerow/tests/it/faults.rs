//! Operations that fail, and a disk without room.
