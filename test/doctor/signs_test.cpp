// What runs that work print besides losses, and what is none of it.
#include "doctor/signs.h"

#include <gtest/gtest.h>

#include "doctor/read_log.h"

namespace plimsoll::doctor {
namespace {

TEST(Signs, AMetricHasAValue) {
  for (const char* line :
       {"{'accuracy': 0.9123, 'f1': 0.9021}", "{'accuracy': np.float64(0.9123)}", "{'val_loss_epoch': 1.202}",
        "        test_acc            0.9123999834060669", "│         test_acc          │     0.9123999834060669     │",
        "validation summary epoch: [11]\taverage wer 21.112", " *   acc@1 79.212 acc@5 94.521",
        "bleu = 27.31 58.9/33.1", "    accuracy                           0.84      3031", "coco/bbox_map: 0.3740",
        "bbox_map_50: 0.581", "best validation accuracy: 91.2%", "\"exact_match\": 81.21, \"f1\": 88.43",
        "rouge-l: 0.31"})
    EXPECT_TRUE(states_metric(line)) << line;
  for (const char* line :
       {"{'lr': 0.001, 'val_check_interval': 0.25, 'metric': 'accuracy'}", "namespace(accuracy_threshold=0.9, f1=true)",
        "score_thresh_test: 0.05", "test_cfg=dict(score_thr=0.05, iou_threshold=0.5)", "conf=none, iou=0.7, box=7.5",
        "map: 100%|###| 5000/5000", "metric_for_best_model=accuracy,", "bbox_reg_loss_weight: 1.0", "f1 is 0.9",
        "loss_scale: 0.0", "precision: 16", "accuracy", "accuracy: ", "the f1 2 racing"})
    EXPECT_FALSE(states_metric(line)) << line;
}

TEST(Signs, AWordBeforeItMakesASettingAMetric) {
  EXPECT_TRUE(states_metric("===test map:0.914"));
  EXPECT_TRUE(states_metric("eval top: 0.71"));
  EXPECT_FALSE(states_metric("map: 0.5"));
  EXPECT_FALSE(states_metric("latest map: 0.5"));
}

TEST(Signs, ABarOfTrainingComesToItsEnd) {
  for (const char* line : {"100%|███| 240/240 [02:14<00:00,  1.78it/s]", "epoch 3: 100%|###| 4/4 [00:31<00:00]",
                           "testing dataloader 0: 100%|███| 313/313 [00:01<00:00, 201.22it/s]"})
    EXPECT_TRUE(is_finished_bar(line)) << line;
  for (const char* line :
       {" 99%|███| 239/240 [02:14<00:00,  1.78it/s]",
        "loading checkpoint shards: 100%|███| 33/33 [00:08<00:00, 2.3s/it]", "100%|███| 2/2 [00:00<00:00, 3.2it/s]",
        "100%|███| 5000/5000 [00:08<00:00, 612.11 examples/s]", "100%|███| 570/570 [00:00<00:00, 312kb/s]",
        "sanity checking: 100%|███| 20/20 [00:00<00:00]", "100%|"})
    EXPECT_FALSE(is_finished_bar(line)) << line;
}

TEST(Signs, ATableOfMetricsHasRows) {
  const auto reads = [](std::initializer_list<const char*> lines) {
    SignsReader reader;
    bool found = false;
    for (const char* line : lines) found = reader.read(line) || found;
    return found;
  };
  EXPECT_TRUE(reads({"e    #       loss tok2vec  loss ner  ents_f  score", "---  ------  ------  -----  ------  ------",
                     "  2     200        119.43   1921.52   62.21    0.62"}));
  EXPECT_TRUE(reads({"|   ap   |  ap50  |  ap75  |", "|:------:|:------:|:------:|", "| 38.121 | 58.921 | 41.221 |"}));
  EXPECT_TRUE(reads({"  class     images  instances      box(p          r      map50  map50-95",
                     "    all        128        929      0.812      0.744      0.831      0.611"}));
  EXPECT_FALSE(reads({"split  documents  tokens", "train  149        3.2"}));
  EXPECT_FALSE(reads({"e    #       loss tok2vec  loss ner  ents_f  score"}));
  EXPECT_FALSE(reads({"precision recall", "and other words", "0.81 0.79"}));
}

TEST(Signs, AnErrorMayBeAMeasure) {
  for (const char* line : {"mean absolute error: 0.12", "test_error=0.31", "word error rate 0.21"})
    EXPECT_TRUE(measures_error(line)) << line;
  for (const char* line : {"error: job failed", "some error happened", "all is well"})
    EXPECT_FALSE(measures_error(line)) << line;
}

// A log without a loss and without anything like an error is of a run that worked, if it shows how it ended.
TEST(Signs, AnOrdinaryEndIsNoFailure) {
  const std::string lightning =
      "trainer.py:1580: UserWarning: GPU available but not used. Set the gpus flag in your trainer `Trainer(gpus=1)`.\n"
      "  | Name | Type   | Params\n--------------------------------\n0 | body | Linear | 24    \n"
      "24        Trainable params\n";
  for (const std::string& end : std::initializer_list<std::string>{
           "{'val_loss_step': 1.248, 'val_acc_step': 0.677, 'avg_val_loss': 1.202}\n",
           "────────────────────────────\n       Test metric             DataLoader 0\n────────────────────────────\n"
           "        test_acc            0.9123999834060669\n────────────────────────────\n",
           "DATALOADER:0 TEST RESULTS\n{'test_acc': 0.8734999895095825}\n",
           "100%|██████████| 240/240 [02:14<00:00,  1.78it/s]\n",
           "✔ Saved pipeline to output directory\noutput/model-last\n",
           "              precision    recall  f1-score   support\n\n       B-ANS       0.81      0.83      0.82       "
           "821\n",
           "Results saved to runs/detect/train\n",
           "Evaluation results for bbox: \n|   AP   |  AP50  |\n|:------:|:------:|\n| 38.121 | 58.921 |\n",
           " Average Precision  (AP) @[ IoU=0.50:0.95 | area=   all | maxDets=100 ] = 0.381\n",
           "Training Summary Epoch: [11]\tTime taken (s): 2211\tAverage Loss 21.312\t\n",
           "Model weights saved in out/checkpoint-500/model.safetensors\n",
           "***** train metrics *****\n  epoch                    =        3.0\n"}) {
    EXPECT_EQ(name_of(diagnose(end)), "no failure") << end;
    EXPECT_EQ(name_of(diagnose(lightning + end)), "no failure") << end;
    for (const char* trouble :
         {"ERROR: the job has ended\n", "The node could not be reached\n", "OddError: no such thing\n",
          "Traceback (most recent call last):\n  File \"t.py\", line 3, in f\n", "train.sh: line 3: 4411 Killed\n"})
      EXPECT_NE(name_of(diagnose(end + trouble)), "no failure") << end << trouble;
  }
}

TEST(Signs, KerasAndTrackersEndInTheirOwnWords) {
  EXPECT_EQ(name_of(diagnose("313/313 - 1s - loss: 0.0734 - accuracy: 0.9771 - 512ms/epoch - 2ms/step\n")),
            "no failure");
  EXPECT_EQ(name_of(diagnose("wandb: Waiting for W&B process to finish... (success).\n")), "no failure");
  EXPECT_EQ(name_of(diagnose("wandb: Waiting for W&B process to finish... (failed 1).\n")), "not recognised");
}

// A log that is cut before anything was trained or measured says nothing.
TEST(Signs, ABeginningIsNoEnd) {
  for (const char* log :
       {"Loading checkpoint shards:  33%|###   | 1/3 [00:02<00:05,  2.91s/it]\n"
        "Loading checkpoint shards:  67%|###   | 2/3 [00:05<00:02,  2.91s/it]\n"
        "Loading checkpoint shards: 100%|######| 3/3 [00:08<00:00,  2.31s/it]\n",
        "Sanity Checking DataLoader 0:   0%|          | 0/2 [00:00<?, ?it/s]\n"
        "Sanity Checking DataLoader 0: 100%|##########| 2/2 [00:00<00:00,  3.21it/s]\n",
        "Map: 100%|##########| 5000/5000 [00:08<00:00, 612.11 examples/s]\n",
        "***** Running training *****\n  Num examples = 3,000\n  0%|          | 0/564 [00:00<?, ?it/s]\n",
        "{\n  \"hidden_dropout_prob\": 0.1,\n  \"vocab_size\": 30522\n}\nloading weights file model.safetensors\n",
        "trainable params: 294,912 || all params: 124,734,720 || trainable%: 0.2364\n",
        "weight_decay=0.0,\nwarmup_ratio=0.1,\nmetric_for_best_model=accuracy,\n"})
    EXPECT_EQ(name_of(diagnose(log)), "not recognised") << log;
}

}  // namespace
}  // namespace plimsoll::doctor
