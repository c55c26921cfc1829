// reprise/resources: objects with a desired and an actual state, list and watch, informers and controllers.

export type { SchemaIssue, SchemaResult, StandardSchema } from '../../engine/model/schema.ts'
export {
  type ControllerDefinition,
  type ControllerHandle,
  type ControllerOptions,
  controller,
} from './controller.ts'
export type { FollowerHandle, SettledOptions } from './follower-handle.ts'
export type { FollowerLetter, ResourceEvent } from './follower-state.ts'
export { type GarbageCollector, type GarbageOptions, garbageCollector } from './garbage.ts'
export type { ResourceHandle } from './handle.ts'
export type { ResourceIndex } from './indexes.ts'
export {
  type InformerDefinition,
  type InformerEvent,
  type InformerHandle,
  type InformerOptions,
  informer,
} from './informer.ts'
export { type JsonPatch, type JsonPatchOperation, jsonPatch } from './json-patch.ts'
export type { ListOptions, ResourceList } from './list.ts'
export type { OriginCollection, OriginEvent, OriginKind, OriginObject, OriginPage, ResourceOrigin } from './origin.ts'
export type { Reconcile, ReconcileContext, Requeue, Watched } from './reconcile-context.ts'
export type { Applying, PartOf, Patch, Reporting, Updating } from './requests.ts'
export { type ResourceDefinition, type ResourceOptions, resource } from './resource.ts'
export type { ApiNames, ApiOptions } from './rules/api-names.ts'
export type { FieldOwners } from './rules/field-owners.ts'
export type { Json } from './rules/json.ts'
export { mergePatch } from './rules/merge-patch.ts'
export type {
  Condition,
  Draft,
  NewCondition,
  NewObject,
  ObjectChange,
  OwnerReference,
  Precondition,
  ResourceObject,
  StatusChange,
} from './rules/object.ts'
export type { SelectorText } from './rules/selector.ts'
export type { ResourceState } from './rules/state.ts'
export type { Watch, WatchEvent, WatchOptions } from './watch.ts'
