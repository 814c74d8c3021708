# gordian::grpc and gordian::protobuf, as archives. As shared libraries they and abseil's are fifty, and
# the loader takes half of each start to bring those together.
find_package(Protobuf REQUIRED)  # the compiler
find_package(OpenSSL REQUIRED)
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)

# What libgrpc++ needs, directly or not. By name: pkg-config walks hundreds of abseil's packages for
# it, several times, for half a minute.
set(grpc_archives)
foreach(name IN ITEMS protobuf grpc++ grpc gpr address_sorting upb re2 cares
    absl_bad_optional_access absl_bad_variant_access absl_base absl_city absl_cord
    absl_cord_internal absl_cordz_functions absl_cordz_handle absl_cordz_info
    absl_debugging_internal absl_demangle_internal absl_exponential_biased
    absl_graphcycles_internal absl_hash absl_int128 absl_low_level_hash absl_malloc_internal
    absl_random_internal_platform absl_random_internal_pool_urbg absl_random_internal_randen
    absl_random_internal_randen_hwaes absl_random_internal_randen_hwaes_impl
    absl_random_internal_randen_slow absl_random_internal_seed_material
    absl_random_seed_gen_exception absl_raw_hash_set absl_raw_logging_internal absl_spinlock_wait
    absl_stacktrace absl_status absl_statusor absl_str_format_internal absl_strerror absl_strings
    absl_strings_internal absl_symbolize absl_synchronization absl_throw_delegate absl_time
    absl_time_zone)
  find_library(GORDIAN_ARCHIVE_${name} "lib${name}.a")
  mark_as_advanced(GORDIAN_ARCHIVE_${name})
  if(NOT GORDIAN_ARCHIVE_${name})
    message(FATAL_ERROR "lib${name}.a was not found: install libgrpc++-dev, with what it depends on")
  endif()
  list(APPEND grpc_archives "${GORDIAN_ARCHIVE_${name}}")
endforeach()
list(POP_FRONT grpc_archives protobuf_archive)
add_library(gordian_protobuf INTERFACE)
add_library(gordian::protobuf ALIAS gordian_protobuf)
target_link_libraries(gordian_protobuf INTERFACE "${protobuf_archive}" ZLIB::ZLIB Threads::Threads)
add_library(gordian_grpc INTERFACE)
add_library(gordian::grpc ALIAS gordian_grpc)
# They need each other in circles; OpenSSL stands among them for linkers that read each file once.
string(REPLACE ";" "," grpc_group "${grpc_archives};${OPENSSL_SSL_LIBRARY};${OPENSSL_CRYPTO_LIBRARY}")
target_link_libraries(gordian_grpc INTERFACE "$<LINK_GROUP:RESCAN,${grpc_group}>"
  gordian::protobuf ZLIB::ZLIB ${CMAKE_DL_LIBS})
