"""remove_ring_folder: only what gordian puts into such a folder, and nothing behind a link in its place."""
import os
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import execute  # noqa: E402


class RingFolder(unittest.TestCase):
    def setUp(self):
        self.path = f"/dev/shm/gordian-{os.getuid()}-{os.urandom(3).hex()}"
        self.victim = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.victim)
        self.fill(self.victim)

    def fill(self, folder, more=()):
        for name in ["1.22.ring", "1.22.3.ring", "1.22.ring.tmp", ".session", *more]:
            with open(os.path.join(folder, name), "w") as f:
                f.write("precious")

    def victim_is_whole(self):
        self.assertEqual(sorted(os.listdir(self.victim)), [".session", "1.22.3.ring", "1.22.ring", "1.22.ring.tmp"])

    def test_gordians_own_goes(self):
        os.mkdir(self.path, 0o700)
        self.fill(self.path)
        execute.remove_ring_folder(self.path)
        self.assertFalse(os.path.lexists(self.path))

    def test_a_link_in_its_place_stays(self):
        os.symlink(self.victim, self.path)
        self.addCleanup(os.unlink, self.path)
        with self.assertRaises(OSError):
            execute.remove_ring_folder(self.path)
        self.victim_is_whole()

    def test_other_files_stay(self):
        os.mkdir(self.path, 0o700)
        self.addCleanup(shutil.rmtree, self.path)
        self.fill(self.path, ["letter"])
        with self.assertRaises(OSError):
            execute.remove_ring_folder(self.path)
        self.assertEqual(os.listdir(self.path), ["letter"])

    def test_a_folder_of_another_name_stays(self):
        execute.remove_ring_folder(self.victim)
        self.victim_is_whole()


if __name__ == "__main__":
    unittest.main()
