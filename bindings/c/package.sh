#!/usr/bin/env bash
# Makes two packages of Debian of an installed tree: the shared libraries, and what programs are
# compiled with.
#
#   package.sh FOLDER VERSION ABI ABOUT     takes FOLDER/all; the packages go to FOLDER
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$1"
version=$2 abi=$3 about=$4
arch=$(dpkg --print-architecture)
name=libhedgerow$abi

# The files of each package, their licences, and those of the crates that are linked in.
"$here/../../packaging/notices" "$here/../Cargo.toml" hedgerow-c hedgerow-leveldb >third-party-notices.txt
mkdir -p "$name/DEBIAN" libhedgerow-dev/DEBIAN
for package in "$name" libhedgerow-dev; do
  mkdir -p "$package/usr/share/doc/$package"
  cat "$here"/../../LICENSE-MIT "$here"/../../LICENSE-APACHE >"$package/usr/share/doc/$package/copyright"
  cp third-party-notices.txt "$package/usr/share/doc/$package"
done
(cd all && find . -name 'lib*.so.*' -exec cp --parents -P {} "../$name" \;)
(cd all && find . \( -type f -o -type l \) ! -name 'lib*.so.*' -exec cp --parents -P {} ../libhedgerow-dev \;)
find "$name" -name 'lib*.so.*' -exec strip --strip-unneeded {} \;

# The newest version of the C library that a function is taken from.
libc=$(find "$name" -name 'lib*.so.*' -exec objdump -T {} \; | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -V | tail -n 1)

# control PACKAGE SECTION DEPENDS ABOUT: writes the description of a package.
control() {
  cat >"$1/DEBIAN/control" <<END
Package: $1
Version: $version
Architecture: $arch
Multi-Arch: same
Section: $2
Priority: optional
Maintainer: The authors of Hedgerow <hedgerow@localhost>
Depends: $3
Installed-Size: $(du -sk "$1/usr" | cut -f 1)
Description: $4
 Hedgerow stores named maps of keys and values in a directory, below one
 memory budget. This package has its C interface and LevelDB's.
END
}

control "$name" libs "libc6 (>= $libc), libgcc-s1" "$about"
control libhedgerow-dev libdevel "$name (= $version)" "$about (development files)"
for library in libhedgerow libhedgerow_leveldb; do
  printf '%s %s %s\n' "$library" "$abi" "$name"
done >"$name/DEBIAN/shlibs"
echo 'activate-noawait ldconfig' >"$name/DEBIAN/triggers"

for package in "$name" libhedgerow-dev; do
  dpkg-deb --build --root-owner-group "$package" . >/dev/null
  ls "$PWD/${package}_${version}_$arch.deb"
done
