//! Extended attributes and access control lists, which are attributes too.

use std::os::fd::{AsRawFd as _, BorrowedFd};

use rustix::fs::{
    XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr, fstatvfs, lgetxattr, llistxattr, lsetxattr,
};
use rustix::io::Errno;

/// Bytes of the first buffer: enough for most files. If not, the call is repeated with more.
const USUAL_BYTES: usize = 1 << 10;
/// The kernel's own limit in bytes, for the list of names and for each value.
const BYTES_MAX: usize = 64 << 10;

/// Names and values, by name.
pub(super) type Xattrs = Vec<(Vec<u8>, Vec<u8>)>;

/// Attributes that the kernel maintains itself. A copy has its own, by the rules of its location.
const KERNELS_OWN: [&[u8]; 3] = [b"security.selinux", b"security.ima", b"security.evm"];

/// A file system object that has attributes.
#[derive(Clone, Copy)]
pub(super) enum Owner<'a> {
    /// An open file or directory.
    Open(BorrowedFd<'a>),
    /// A symbolic link in a directory; it can't be opened.
    Link(BorrowedFd<'a>, &'a [u8]),
}

impl Owner<'_> {
    /// Returns a path through the directory's descriptor: no call takes a descriptor and a name.
    fn path(dir: BorrowedFd<'_>, name: &[u8]) -> Vec<u8> {
        [format!("/proc/self/fd/{}/", dir.as_raw_fd()).as_bytes(), name].concat()
    }

    fn list(self, buffer: &mut [u8]) -> Result<usize, Errno> {
        match self {
            Self::Open(fd) => flistxattr(fd, buffer),
            Self::Link(dir, name) => llistxattr(Self::path(dir, name), buffer),
        }
    }

    fn get(self, name: &[u8], buffer: &mut [u8]) -> Result<usize, Errno> {
        match self {
            Self::Open(fd) => fgetxattr(fd, name, buffer),
            Self::Link(dir, link) => lgetxattr(Self::path(dir, link), name, buffer),
        }
    }

    fn set(self, name: &[u8], value: &[u8]) -> Result<(), Errno> {
        match self {
            Self::Open(fd) => fsetxattr(fd, name, value, XattrFlags::empty()),
            Self::Link(dir, link) => lsetxattr(Self::path(dir, link), name, value, XattrFlags::empty()),
        }
    }

    fn is_full(self) -> bool {
        let (Self::Open(fd) | Self::Link(fd, _)) = self;
        fstatvfs(fd).is_ok_and(|found| found.f_bavail == 0)
    }

    /// Reads all attributes that a copy should have.
    pub(super) fn read(self) -> Result<Xattrs, Errno> {
        let names = match filled(|buffer| self.list(buffer)) {
            // Not every file system has attributes, and links are out of reach if /proc isn't
            // mounted.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(Vec::new()),
            Err(Errno::NOENT) if matches!(self, Self::Link(..)) => return Ok(Vec::new()),
            done => done?,
        };
        let mut xattrs = Vec::new();
        for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty() && !KERNELS_OWN.contains(name)) {
            match filled(|buffer| self.get(name, buffer)) {
                Ok(value) => xattrs.push((name.to_vec(), value)),
                // Removed in the meantime, which updates the ctime; or listed, but not readable for
                // us.
                Err(Errno::NODATA | Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP) => {}
                Err(error) => return Err(error),
            }
        }
        xattrs.sort_unstable();
        Ok(xattrs)
    }

    /// Sets the attributes and returns the names of those that can't be set.
    pub(super) fn write(self, xattrs: &Xattrs) -> Result<Vec<Vec<u8>>, Errno> {
        let mut lost = Vec::new();
        for (name, value) in xattrs {
            match self.set(name, value) {
                Ok(()) => {}
                Err(error @ (Errno::DQUOT | Errno::IO)) => return Err(error),
                // ext4 also reports this for a value that is too large for it.
                Err(error @ Errno::NOSPC) if self.is_full() => return Err(error),
                Err(_) => lost.push(name.clone()),
            }
        }
        Ok(lost)
    }
}

/// Removes access control lists that a new directory may have inherited from its parent; a copy has
/// only those of its source.
pub(super) fn strip_inherited(dir: BorrowedFd<'_>) {
    for name in ["system.posix_acl_default", "system.posix_acl_access"] {
        let _ = fremovexattr(dir, name);
    }
}

fn filled(fill: impl Fn(&mut [u8]) -> Result<usize, Errno>) -> Result<Vec<u8>, Errno> {
    let mut small = [0; USUAL_BYTES];
    match fill(&mut small) {
        Ok(length) => return Ok(small[..length].to_vec()),
        Err(Errno::RANGE) => {}
        Err(error) => return Err(error),
    }
    let mut large = vec![0; BYTES_MAX];
    let length = fill(&mut large)?;
    large.truncate(length);
    large.shrink_to_fit();
    Ok(large)
}
