// The same for programs, which run on the build.

export { hostOf } from '../../dist/engine/host/host.js'
