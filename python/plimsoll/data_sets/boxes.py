"""The unit of boxes, worked out from the data."""

from .problem import problem


class BoxEvidence:
    """Collects facts that distinguish pixels from thousandths of the page."""

    def __init__(self):
        self.largest = 0
        self.beyond_image = ""  # a page with a box outside its own picture: the boxes cannot be pixels
        self.above_1000 = ""    # a page with a coordinate above 1000: the boxes cannot be thousandths
        self.largest_image = 0

    def add(self, boxes, size, where):
        for box in boxes:
            self.largest = max(self.largest, *box)
            if max(box) > 1000:
                self.above_1000 = self.above_1000 or where
            if size and (max(box[0], box[2]) > size[0] or max(box[1], box[3]) > size[1]):
                self.beyond_image = self.beyond_image or where
        if size:
            self.largest_image = max(self.largest_image, *size)

    def decide(self):
        if self.above_1000 and self.beyond_image and self.above_1000 == self.beyond_image:
            raise problem("boxes fit neither pixels nor thousandths of the page", self.above_1000,
                          "a box outside its own image, with a coordinate above 1000", "0 to 1000, or 0 to the image's size",
                          "look at that page; --box-format pixel or 1000 converts all the same, for plimsoll check to list")
        if self.above_1000:
            return "pixel", f"{self.above_1000} has coordinates above 1000"
        if self.beyond_image:
            return "1000", f"{self.beyond_image} has boxes beyond its image"
        # No real data has pages of 1,500 pixels and more with nothing below pixel 1,000.
        if self.largest_image >= 1500:
            return "1000", f"no coordinate is above 1000, images have up to {self.largest_image} pixels"
        raise problem("boxes could be pixels or thousandths of the page", "all pages",
                      f"coordinates up to {self.largest}, images of up to {self.largest_image} pixels",
                      "--box-format pixel, or --box-format 1000", "look it up on the data set's card (LayoutLM's own is 1000)", 2)
