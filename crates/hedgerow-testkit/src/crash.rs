//! Power cuts, kills and faults on a simulated disk.
