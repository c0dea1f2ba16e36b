'use strict'

const ModuleError = require('module-error')
const binding = require('./binding')

// Calls a function with the handle of an abort that a signal triggers; 0 without a signal.
async function abortable (signal, call) {
  if (signal == null) return call(0)
  if (signal.aborted) throw abortError()
  const abort = binding.newAbort()
  const listener = () => binding.abort(abort)
  signal.addEventListener('abort', listener, { once: true })
  try {
    return await call(abort)
  } catch (err) {
    throw err.code === 'LEVEL_ABORTED' ? abortError(err) : err
  } finally {
    signal.removeEventListener('abort', listener)
    binding.release(abort)
  }
}

function abortError (cause) {
  const err = new ModuleError('Operation has been aborted', { code: 'LEVEL_ABORTED', cause })
  err.name = 'AbortError'
  return err
}

module.exports = { abortable, abortError }
