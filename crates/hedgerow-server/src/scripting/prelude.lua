-- Runs once in each new state. `host` has the functions of the server: each returns true and its
-- results, or false and the text of an error. Returns the function that runs a script.
local host = ...
local globals = _G
local error, getmetatable, ipairs, pairs, pcall = error, getmetatable, ipairs, pairs, pcall
local find, rawset = string.find, rawset
local setmetatable, tonumber, tostring, type, xpcall = setmetatable, tonumber, tostring, type, xpcall
local loadstring, byte, floor = loadstring, string.byte, math.floor

-- ---- tables that scripts cannot change ----

local READ_ONLY = "Attempt to modify a readonly table"
local guarded = {}

local function refuse()
  error(READ_ONLY, 2)
end

-- The metatable that scripts see of a guarded table.
local hidden = setmetatable({}, { __newindex = refuse, __metatable = false })
guarded[hidden] = true

-- Makes an empty table through which `real` can be read.
local function guard(proxy, real)
  guarded[proxy] = true
  return setmetatable(proxy, { __index = real, __newindex = refuse, __metatable = hidden })
end

-- ---- what scripts have ----

local function checked(ok, ...)
  if not ok then
    error((...), 3)
  end
  return ...
end

local function library(functions)
  local made = {}
  for name, run in pairs(functions) do
    made[name] = function(...)
      return checked(run(...))
    end
  end
  return made
end

local redis = library(host.redis)
for name, value in pairs(host.constants) do
  redis[name] = value
end

-- The function of the running script.
local call

function redis.pcall(...)
  return (call(...))
end

function redis.call(...)
  local reply = call(...)
  if type(reply) == "table" and reply.err then
    error(reply)
  end
  return reply
end

local real = {}
for name, value in pairs(globals) do
  real[name] = value
end
for name in pairs(real) do
  globals[name] = nil
end
-- A coroutine that runs for ever could not be ended.
for _, name in ipairs({ "coroutine", "print", "dofile", "loadfile", "newproxy", "getfenv", "setfenv", "require", "module", "package" }) do
  real[name] = nil
end

real.redis = redis
real.server = redis
real.cjson = library(host.cjson)
real.cjson.null = host.null
real.cmsgpack = library(host.cmsgpack)
real.bit = library(host.bit)
real.struct = library(host.struct)
real.os = { clock = real.os.clock }

-- Passes on what a protected call returns, but for the errors that end the script.
local function passed(ok, ...)
  if not ok then
    local found = ...
    local is_text = type(found) == "string" or type(found) == "userdata"
    if host.is_ended() or is_text and find(tostring(found), "not enough memory", 1, true) then
      error(found, 0)
    end
  end
  return ok, ...
end

function real.pcall(...)
  return passed(pcall(...))
end

function real.xpcall(run, handler)
  return passed(xpcall(run, function(found)
    -- It runs where the error is raised: inside of the look at what others want, which then looks
    -- no further.
    if host.is_ended() then
      return found
    end
    return handler(found)
  end))
end

function real.math.randomseed(seed)
  host.seed(tonumber(seed) or 0)
end

function real.math.random(first, last)
  local drawn = host.random()
  if not first then
    return drawn
  end
  if not last then
    first, last = 1, first
  end
  if first > last then
    error("interval is empty", 2)
  end
  return floor(drawn * (last - first + 1)) + first
end

-- Bytes of a compiled script are not checked by Lua.
function real.loadstring(text, name)
  if type(text) == "string" and byte(text) == 27 then
    return nil, "compiled scripts are refused"
  end
  return loadstring(text, name)
end

function real.load(reader, name)
  local parts = {}
  for part in reader do
    if part == "" then
      break
    end
    parts[#parts + 1] = part
  end
  return real.loadstring(real.table.concat(parts), name)
end

function real.setmetatable(table, metatable)
  if guarded[table] then
    error(READ_ONLY, 2)
  end
  return setmetatable(table, metatable)
end

function real.rawset(table, name, value)
  if guarded[table] then
    error(READ_ONLY, 2)
  end
  return rawset(table, name, value)
end

for name, value in pairs(real) do
  if type(value) == "table" then
    real[name] = guard({}, value)
  end
end
-- The methods of strings are those of the guarded table, too.
getmetatable("").__index = real.string
getmetatable("").__metatable = hidden

real._G = guard(globals, real)
setmetatable(real, {
  __index = function(_, name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
  end,
})

-- ---- running ----

local function problem(found)
  if type(found) == "table" then
    return found
  end
  return { err = "ERR " .. tostring(found), is_text = true }
end

local function run(script, keys, arguments, is_function)
  if is_function then
    return xpcall(function()
      return script(keys, arguments)
    end, problem)
  end
  real.KEYS, real.ARGV = keys, arguments
  return xpcall(script, problem)
end

-- While a library is loaded, it has a function to register others.
local function load(library, register)
  redis.register_function = function(...)
    return checked(register(...))
  end
  local ok, found = xpcall(library, problem)
  redis.register_function = nil
  return ok, found
end

local function set_call(new)
  call = new
end

return run, load, set_call
