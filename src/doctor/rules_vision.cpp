// Detectors and other code for pictures: detectron2, YOLO, OpenCV, albumentations, torchvision.
#include "doctor/rule.h"

namespace plimsoll::doctor {

std::vector<Rule> vision_rules() {
  return {
      {.name = "yolo-labels",
       .when = {"no labels found in*can not start training", "no labels found in*cannot start training",
                "no labels in*can not train without labels", "assertionerror*no labels found in",
                "assertionerror*no labels in"},
       .refines = {"empty-data", "labels-not-found"},
       .what = "no label file was found for any of the training images",
       .cause =
           "YOLO puts \"labels\" where the path of an image has \"images\", in small letters: the folder has another "
           "name, or the text files are not there\n"
           "The files have other names than their images, or are empty\n"
           "An old *.cache beside the folder remembers that there were none",
       .confirm = "images/train/a.jpg wants labels/train/a.txt: ls one of each",
       .fix = "name the folders images and labels\n"
              "a line a box in each text file: class x_center y_center width height, from 0 to 1\n"
              "delete the *.cache files and start again"},
      {.name = "image-pixels",
       .when = {"decompressionbomb", "could be decompression bomb"},
       .refines = {"bad-image"},
       .what = "an image has more pixels than Pillow opens",
       .cause =
           "A scan or map is very large: Pillow warns above 89 million pixels (MAX_IMAGE_PIXELS), and refuses above "
           "twice as many\n"
           "A page of a PDF was rendered at far too many dots per inch, or the file is damaged and states a wrong "
           "size\n"
           "An animation or stacked image has that many pixels in one frame",
       .confirm = "the message's number of pixels against the limit; PIL.Image.open(path).size of that file",
       .fix = "Image.MAX_IMAGE_PIXELS = None before the first image is opened, if the source is trusted\n"
              "save the image smaller once (300 dots per inch are 8.7 million pixels for an A4 page), which also saves "
              "memory\n"
              "leave the file out",
       .command =
           "plimsoll check --model DIR --data pages.jsonl --decode-images decodes every image and names the bad ones"},
      {.name = "yolo-class",
       .when = {"label class*exceeds nc=", "label class*exceeds dataset class count", "possible class labels are 0-"},
       .what = "a label file has a class whose number is not below the number of classes",
       .cause = "The numbers begin at 1: YOLO counts classes from 0\n"
                "nc (or names) in the data set's YAML file has fewer classes than the labels\n"
                "The labels are another data set's, or a *.cache beside them is old",
       .confirm = "cut -d' ' -f1 labels/train/*.txt | sort -n | uniq -c, against nc and names",
       .fix = "number the classes from 0, or set nc and names to all that there are\n"
              "delete the *.cache files and start again"},
      {.name = "category-unknown",
       .when = {"a prediction has category_id=*which is not available in the dataset"},
       .what = "the model predicts a class that the data set does not have",
       .cause = "The head has more classes than the data set: NUM_CLASSES was left at another data set's (80 of COCO)\n"
                "The data set was registered without thing_classes, or its ids were not mapped to 0, 1, …\n"
                "The checkpoint was trained for another data set",
       .confirm = "cfg.MODEL.ROI_HEADS.NUM_CLASSES against len(MetadataCatalog.get(NAME).thing_classes)",
       .fix = "cfg.MODEL.ROI_HEADS.NUM_CLASSES = the number of classes, and train again\n"
              "register the data set with its thing_classes, or thing_dataset_id_to_contiguous_id\n"
              "a checkpoint of this data set"},
      {.name = "boxes-crossed",
       .when = {"(boxes1[:, 2:] >= boxes1[:, :2]).all()", "(boxes2[:, 2:] >= boxes2[:, :2]).all()"},
       .what = "boxes have a right or lower edge before the left or upper one, or are NaN",
       .cause = "The model's outputs became NaN: a learning rate that is too high, half precision, or bad weights\n"
                "Annotations are in another form than the code takes: x, y, width, height against two corners, or not "
                "divided by the size of the picture\n"
                "Annotations of the user's own hold empty or wrong boxes, or no category fits",
       .confirm = "torch.isfinite(outputs['pred_boxes']).all(), and targets' boxes of that batch",
       .fix = "a lower learning rate, F32 or bf16, gradient clipping\n"
              "convert the boxes (box_cxcywh_to_xyxy), and leave out those of no area\n"
              "the number of classes and their ids as the annotations have them"},
      {.name = "coco-results",
       .when = {"results do not correspond to current coco set"},
       .what = "the results name images that the annotations do not have",
       .cause = "The results are another split's or another run's: a file that was left there, or val against test\n"
                "The annotation file of the evaluation is another one than the data loader's\n"
                "The ids are not those of the annotation file: running numbers, or names of files",
       .confirm = "set(r['image_id'] for r in results) - set(coco.getImgIds())",
       .fix = "delete the old file of results, and evaluate again\n"
              "the same annotation file for the loader and for COCOeval\n"
              "image_id as the annotation file has it"},
      {.name = "config-key-unknown",
       .when = {"non-existent config key", "non-existent key:", "config key*is not known"},
       .refines = {"key-missing"},
       .what = "the configuration sets a key that this version of the code does not have",
       .cause =
           "The key is misspelt: MODEL.WEIGHT is MODEL.WEIGHTS in detectron2\n"
           "The file was written for another version, or for a project that adds keys of its own (add_…_config(cfg)) "
           "before it reads them",
       .confirm = "the key in the message, in the package's defaults.py",
       .fix = "the name that the defaults have\n"
              "call the project's add_…_config(cfg) before merge_from_file\n"
              "the version that the configuration was written for"},
      {.name = "boxes-empty-set",
       .when = {"loaded roidb entries are empty", "no valid data found in", "all training images have no annotations"},
       .what = "no training image is left that has a box",
       .cause =
           "Images without annotations are left out, and all of them are: the annotation file is another data set's, "
           "or its ids do not fit the images\n"
           "The categories were filtered away, or are named otherwise",
       .confirm = "how many annotations the JSON has, and how many of their image_id are among the images",
       .fix = "the annotation file that belongs to the images\n"
              "the names of the classes as the annotations have them"},
      {.name = "metadata-changed",
       .when = {"in the metadata of*cannot be set to a different value"},
       .what = "detectron2's metadata of a data set was set twice, to different values",
       .cause = "The data set was registered under a name that has metadata already, with other classes\n"
                "A notebook's cell ran twice with other class names",
       .confirm = "MetadataCatalog.get(NAME)",
       .fix = "another name for the data set, or MetadataCatalog.remove(NAME) and DatasetCatalog.remove(NAME) first\n"
              "restart the notebook's kernel"},
      {.name = "box-without-area",
       .when = {"bounding boxes should have positive height and width", "box has zero area", "degenerate box"},
       .what = "a box has no width or no height",
       .cause = "Annotations hold boxes of a single line or point, or corners that are swapped\n"
                "A crop, resize or augmentation has left nothing of a box\n"
                "Boxes are x, y, width, height, and the code takes two corners",
       .confirm = "(boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1]), in the data set's __getitem__",
       .fix = "leave out boxes without area, after the transforms too\n"
              "convert x, y, width, height to x, y, x + width, y + height",
       .command = "plimsoll check --model DIR --data pages.jsonl names every box that has no area"},
      {.name = "box-range",
       .when = {"for bbox*to be in the range [0.0, 1.0]", "bbox*to be in the range [0, 1]"},
       .what = "albumentations got a box that reaches out of its picture",
       .cause = "The format is another one than was declared: pixels given as yolo, coco given as pascal_voc\n"
                "Annotations reach over the edge by a pixel, or rounding puts them there",
       .confirm = "the numbers in the message: above 1 by a little, or pixels?",
       .fix = "BboxParams(format=…) as the boxes are\n"
              "clip=True in BboxParams, or clip the boxes to 0 and 1 before"},
      {.name = "images-missing",
       .when = {"no images found in", "no images or videos found", "found no valid file for the classes"},
       .refines = {"empty-data"},
       .what = "no image was found where the data set is said to lie",
       .cause = "The path in the data set's YAML file is relative to another directory, or misspelt\n"
                "The files have endings that the loader does not take, or lie one folder deeper",
       .confirm = "ls on the path in the message",
       .fix = "an absolute path in the YAML file\n"
              "the folders as the loader expects them: images and labels, or a folder a class"},
      {.name = "yolo-class-missing",
       .when = {"can't get attribute '*on <module 'models.common'", "can't get attribute '*on <module 'models.yolo'",
                "no attribute 'recompute_scale_factor'", "can't get attribute '*on <module 'ultralytics"},
       .refines = {"attribute-missing", "weights-only"},
       .what = "a YOLO checkpoint holds code objects of another version than the code here",
       .cause = "The weights were saved by a newer (or older) version of the repository: classes have been added or "
                "renamed\n"
                "PyTorch is newer than the checkpoint's: layers have lost or gained attributes",
       .confirm = "the version that the weights were released with, against git log -1 here",
       .fix = "git pull, or the tag that the weights belong to; delete weights that an older run downloaded\n"
              "the PyTorch of that release"},
      {.name = "opencv-headless",
       .when = {"the function is not implemented. rebuild the library with windows, gtk+"},
       .what = "OpenCV was asked for a window, and this build has none",
       .cause = "opencv-python-headless is installed, perhaps by another package, beside or in place of opencv-python\n"
                "The machine has no display, and the script calls cv2.imshow",
       .confirm = "pip list | grep opencv",
       .fix = "write pictures with cv2.imwrite instead of showing them\n"
              "pip uninstall -y opencv-python opencv-python-headless; pip install opencv-python"},
      {.name = "dimensions-of-input",
       .when = {"expected 4d input (got", "expected 3d input (got", "expected 2d input (got",
                "expected 2d or 3d input (got", "only batches of spatial targets supported (3d tensors)",
                "input must have 3 dimensions, got", "input.size(-1) must be equal to input_size",
                "expected hidden[0] size"},
       .what = "a layer got a tensor of another number or size of dimensions than it takes",
       .cause = "The batch's dimension is missing (one sample without unsqueeze(0)), or was squeezed away\n"
                "The last dimension is another one than the layer was made for: features and sequence are swapped "
                "(batch_first), or their number is another\n"
                "A target has a channel dimension: masks of [N, H, W, 3] or one-hot, where class numbers [N, H, W] are "
                "wanted",
       .confirm = "print the tensor's shape before that layer, and the layer itself",
       .fix = "unsqueeze(0) for one sample; squeeze(1) with the dimension named\n"
              "batch_first=True, or transpose; input_size as the features are\n"
              "class numbers as targets: mask.argmax(dim=1), or the first channel of the picture",
       .command = "plimsoll check validates the shapes of all pages before training"},
      {.name = "sequence-empty",
       .when = {"length of all samples has to be greater than 0", "input_lengths must be > 0",
                "expected non-empty vector for x"},
       .what = "a sequence of the batch has no element",
       .cause = "A text or recording is empty, or nothing of it is left after cutting and filtering\n"
                "Lengths are computed of the padded or masked sequence wrongly",
       .confirm = "which samples have length 0",
       .fix = "leave out empty samples, or give them one token\n"
              "compute the lengths before padding"},
  };
}

}  // namespace plimsoll::doctor
