"""The pictures a person looks at: what detection heard, and what the highlights show.

Pillow draws them. Nothing here decides anything: a picture that is missing costs no highlight.
"""

from content_pipeline.media.preview.contact_sheet import contact_sheet
from content_pipeline.media.preview.plot import DetectionsPlot, detections_plot
from content_pipeline.media.preview.thumbnail import thumbnail

__all__ = ["DetectionsPlot", "contact_sheet", "detections_plot", "thumbnail"]
