// The way of our own tests from an engine to what lies behind it: the kernel, and what layers are given.

export { hostOf } from '../../src/engine/host/host.ts'
