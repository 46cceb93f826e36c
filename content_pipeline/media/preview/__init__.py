"""The pictures a person looks at: what detection heard, and what the highlights show.

Pillow draws them. Nothing here decides anything: a picture that is missing costs no highlight.

- `plot.py`: level, threshold, events and highlights over time
- `envelope.py`: a long curve seen through few pixel columns
- `contact_sheet.py`: one picture per highlight
- `stills.py`: these pictures, for as little decoding as possible
- `thumbnail.py`: a picture made small
- `bars.py`: a few named amounts, one bar each
- `canvas.py`: colours, text and times that all of them share
"""
