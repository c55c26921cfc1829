// Access of our own tests to the inside of an engine: the kernel, and the host of layers.

export { hostOf } from '../../src/engine/host/host.ts'
