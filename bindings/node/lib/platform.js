'use strict'

const { platform, arch, report } = process

// The C libraries of Linux differ.
function suffix () {
  if (platform !== 'linux') return ''
  return report.getReport().header.glibcVersionRuntime === undefined ? '-musl' : '-gnu'
}

// The package with the library of this platform.
const nativePackage = `hedgerow-level-${platform}-${arch}${suffix()}`

module.exports = { nativePackage }
