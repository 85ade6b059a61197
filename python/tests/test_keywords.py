"""Keywords that are objects or names of other libraries, and plans that are many."""

from test_package import TINY, PackageTest

import plimsoll


class Keywords(PackageTest):
    def test_a_sweep_is_a_list_of_plans(self):
        plans = plimsoll.plan(**TINY, data=self.train_file, sweep=True, points=3)
        self.assertTrue(all(plan.predicted_peak_bytes <= plan.budget_bytes for plan in plans))
        self.assertGreater(len(plans), 1)
        with self.assertRaisesRegex(plimsoll.UsageError, "a drawing needs a file"):
            plimsoll.plan(**TINY, data=self.train_file, html="-")

    def test_objects_of_transformers_are_named(self):
        class Model:
            pass

        with self.assertRaisesRegex(plimsoll.UsageError, "save_pretrained"):
            plimsoll.check(model=Model(), data=self.train_file)
        for keyword, meant in (("train_dataset", "data"), ("processing_class", "tokenizer"), ("eval_dataset", "eval_data")):
            with self.assertRaises(plimsoll.UsageError) as caught:
                plimsoll.plan(**TINY, data=self.train_file, **{keyword: "x"})
            self.assertIn(meant, caught.exception.remedy)
        with self.assertRaisesRegex(plimsoll.UsageError, "to_dict"):
            plimsoll.train(**TINY, data=self.train_file, args=Model())

    def test_callbacks_are_checked_before_the_run(self):
        class Callback:
            def __call__(self, event, run):
                pass

        for wrong in (5, [5], [Callback], Callback(), lambda event, run: None):
            with self.assertRaisesRegex(plimsoll.UsageError, "callback"):
                plimsoll.train(**TINY, data=self.train_file, output_dir=self.root / "unborn", callbacks=wrong)
        self.assertFalse((self.root / "unborn").exists())
