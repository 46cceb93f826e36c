"""Cutting highlights out of a recording and joining them to a montage.

Every mode makes self-contained clip files, and one join concatenates them: pictures are never encoded twice, and the
sound is laid against the pictures' clock, so that nothing drifts over a montage.

- `render_mode.py`: whether copying, a smart cut or encoding suits a recording, and why
- `clip.py`: one highlight rendered to a clip; start here
- `survey.py`: what the packets around a highlight say
- `cutting.py`: where to cut, decided on a survey
- `copying.py`: packets copied into a clip (`copy`, `smart`)
- `edges.py`: the re-encoded edges of a smart cut
- `encoding.py`: all pictures encoded by ffmpeg (`encode`)
- `sound.py`: the sound of one clip
- `clip_file.py`: the file of a clip
- `h264.py`: H.264 as containers carry it
- `ticks.py`: clock ticks moved between clocks
- `join.py`: clips joined to a montage
- `montage_sound.py`: the sound of the montage
- `verify.py`: the last word: it opens, holds what was planned and plays
"""
