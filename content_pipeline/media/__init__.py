"""Reading, understanding and cutting recordings. Knows files and sound; knows no Dagster and no manifest.

The rooms, in the order in which a recording goes through them:

- `mp4/`: the index of an mp4, read by ourselves so that a long recording opens fast and in little memory
- `audio/`: sound decoded to mono blocks, and which track is the loudest
- `curves/`: sound measured; the result is the energy of a recording
- `detection/`: curves judged; the result is candidates, of which some are events
- `selection/`: events chosen; the result is the highlights of a montage or a best-of
- `render/`: highlights cut to clips, and clips joined to a montage
- `preview/`: pictures for people: the plot, the contact sheet, thumbnails

What they share:

- `source.py`: opening a recording safely
- `open_beneath.py`: opening a file below a folder, whatever links appear on the way
- `probe.py`: what a recording says of itself: streams, rates, duration
- `fingerprint.py`: the digests of its content
- `damage.py`: which errors are the recording's fault
- `ffmpeg.py`: running the ffmpeg binary
- `spans.py`: `Span` and `Scene`, times in a recording
"""
