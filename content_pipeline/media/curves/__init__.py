"""Energy: the curves that detection reads, measured from sound.

- `model.py`: `Curves`, and how they are stored
- `measure.py`: the curves of all tracks of a recording; start here
- `track_task.py`: one track that is to be measured
- `parallel_energy.py`: a track measured whole, or in parts by several processes
- `separation.py`: the measuring: sound in, curves out, block by block
- `medians.py`: running medians, the costly part of it
- `frame_series.py`: values per hop, and their RMS over frames
- `memory.py`: how large arrays are allocated
- `librosa_engine.py`: the same curves by librosa, slower, to compare with
"""
