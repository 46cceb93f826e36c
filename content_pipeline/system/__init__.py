"""What the operating system offers, and the standard library lacks. Knows nothing of recordings or jobs.

- `atomic_write.py`: files that appear whole or not at all
- `private_files.py`: files that only their owner may read
- `file_locks.py`: lock files that go away
- `filesystem.py`: copies that share blocks, safe renames, whether somebody writes a file
- `hashing.py`: digests of JSON values and of files
- `child_process.py`: forked children: messages, limits, death with the parent
- `parallel_map.py`: `map` in a few forked processes
- `process_identity.py`: which process is which, across machines and containers
- `root_marker.py`: a file with an id, by which hosts know the same storage
- `read_beginning.py`: the first bytes of a database file, without losing the locks on it
- `open_files.py`: which processes have a file open
- `stack_dump.py`: where a process hangs
"""
