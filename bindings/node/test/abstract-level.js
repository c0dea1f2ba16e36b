'use strict'

// The conformance suite of abstract-level, as published.

const fs = require('fs')
const os = require('os')
const path = require('path')
const test = require('tape')
const suite = require('abstract-level/test')
const { HedgerowLevel } = require('..')

const root = fs.mkdtempSync(path.join(os.tmpdir(), 'hedgerow-level-'))
let databases = 0

suite({
  test,
  factory: options => new HedgerowLevel(path.join(root, String(databases++)), options)
})

test.onFinish(() => fs.rmSync(root, { recursive: true, force: true }))
