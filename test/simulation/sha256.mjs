// The hash of the real engine: what it names and what the oracle names must be the same.

export { sha256 } from '../../dist/engine/base/platform.js'
