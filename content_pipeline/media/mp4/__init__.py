"""The index of an mp4 or mov, read from the file: libavformat would lay out every packet of every track.

- `boxes.py`: `Box`, a part of the file and the parts in it
- `header.py`: a short header for whoever only probes the recording
- `excerpt.py`: a header for some minutes of one audio track, so that it is decoded window by window
- `sample_table.py`: which bytes hold which moment of a track
- `chunk_table.py`: which chunk of the file holds which packet
"""
