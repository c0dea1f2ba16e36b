'use strict'

const fs = require('fs')
const path = require('path')

// The native functions: from the build of this folder, or from the package of this platform.
function load () {
  const built = path.join(__dirname, '..', 'hedgerow.node')
  if (fs.existsSync(built)) return require(built)
  const { nativePackage } = require('./platform')
  try {
    return require(nativePackage)
  } catch (cause) {
    const message = `expected the package ${nativePackage} with the native part of hedgerow-level; ` +
      'install it, or run `npm run build` in a checkout'
    throw new Error(message, { cause })
  }
}

const binding = load()
binding.prepare()
module.exports = binding
