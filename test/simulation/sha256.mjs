// The hash of the real engine: the engine and the oracle must compute the same names.

export { sha256 } from '../../dist/engine/base/platform.js'
