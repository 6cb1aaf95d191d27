"""The directories that others may share, by the mount table of the kernel."""

import pytest

from backends.files.scan import shared_type
from fakes.each import each

MOUNTS = r"""
22 1 259:1 / / rw,relatime shared:1 - ext4 /dev/root rw,discard
23 22 0:21 / /proc rw,nosuid shared:12 - proc proc rw
45 40 0:40 / /mnt/share/local rw - xfs /dev/sdc1 rw
40 22 0:35 / /mnt/share rw - nfs4 server:/export rw,vers=4.2
41 22 0:36 / /mnt/my\040notes rw - cifs //server/notes rw
42 22 0:37 / /mnt/back\134slash rw - 9p host rw
43 22 0:38 / /mnt/ssh rw - fuse.sshfs me@server:/ rw
44 22 0:39 / /mnt/ntfs rw - fuseblk /dev/sdb1 rw
46 22 0:41 / /mnt/twice rw - ext4 /dev/sdd1 rw
47 22 0:42 / /mnt/twice rw - nfs server:/other rw
48 22 0:43 / /mnt/docker rw master:3 propagate_from:2 - virtiofs home rw
49 22 0:44 / /mnt/plain rw - fuse portal rw
50 22 0:45 / /mnt/overlay rw - overlay overlay rw
51 22 0:46 / /mnt/smb rw - smb3 //server/notes rw
52 22 0:47 / /mnt/ceph rw - ceph 10.0.0.1:6789,10.0.0.2:6789:/ rw,name=admin
53 22 0:48 / /mnt/gluster rw - fuse.glusterfs server:/volume rw
54 22 0:49 / /mnt/lustre rw - lustre 10.0.0.1@tcp:/scratch rw
55 22 0:50 / /mnt/cluster rw - gfs2 /dev/vg/cluster rw
56 22 0:51 / /mnt/efs rw - nfs4 127.0.0.1:/ rw,vers=4.1,port=20449
57 22 0:52 / /mnt/bucket rw - fuse.s3fs s3fs rw
""".lstrip()


@pytest.fixture
def mounts(tmp_path):
    path = tmp_path / "mountinfo"
    path.write_text(MOUNTS, encoding="utf-8")
    return path


@each(
    ("directory", "shared_as"),
    [
        ("/home/me/.state", None),
        ("/", None),
        ("/mnt/share", "nfs4"),
        ("/mnt/share/memory", "nfs4"),
        ("/mnt/shared", None),
        ("/mnt/share/local/memory", None),
        ("/mnt/my notes/memory", "cifs"),
        ("/mnt/back\\slash", "9p"),
        ("/mnt/ssh/x", "fuse.sshfs"),
        ("/mnt/ntfs/x", None),
        ("/mnt/twice/x", "nfs"),
        ("/mnt/docker", "virtiofs"),
        ("/mnt/plain", "fuse"),
        ("/mnt/overlay", None),
        ("/mnt/smb/x", "smb3"),
        ("/mnt/ceph/x", "ceph"),
        ("/mnt/gluster/x", "fuse.glusterfs"),
        ("/mnt/lustre/x", "lustre"),
        ("/mnt/cluster/x", "gfs2"),
        ("/mnt/efs/x", "nfs4"),
        ("/mnt/bucket/x", "fuse.s3fs"),
    ],
)
def test_the_innermost_mount_decides(mounts, directory, shared_as):
    assert shared_type(directory, mounts) == shared_as


def test_a_directory_reached_over_a_link_counts_where_it_really_is(mounts, tmp_path):
    link = tmp_path / "link"
    link.symlink_to("/mnt/share/memory")
    assert shared_type(link, mounts) == "nfs4"


def test_without_a_mount_table_no_directory_counts_as_shared(tmp_path):
    assert shared_type(tmp_path, tmp_path / "absent") is None


def test_names_that_are_not_utf8_and_unknown_types_do_no_harm(tmp_path):
    mounts = tmp_path / "mountinfo"
    mounts.write_bytes(
        b"22 1 8:1 / / rw - ext4 r rw\n23 22 8:2 / /mnt/\xff\xe2\x80\xa8 rw - nfs s rw\n"
    )
    assert shared_type(tmp_path, mounts) is None
