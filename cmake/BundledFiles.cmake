# What goes into a Python wheel: the program, and with PLIMSOLL_BUNDLE what it needs where no package is installed: the
# fonts of drawn pages, and Tesseract with its English data (scripts/build_wheel.sh, src/base/installed.h).
install(TARGETS plimsoll DESTINATION plimsoll/bin COMPONENT program)
if(TARGET plimsoll_mpi)  # used where the system has Open MPI
  install(TARGETS plimsoll_mpi LIBRARY DESTINATION plimsoll/lib COMPONENT program)
endif()
option(PLIMSOLL_BUNDLE "Put fonts and Tesseract into the wheel" OFF)
if(NOT PLIMSOLL_BUNDLE)
  return()
endif()
function(plimsoll_bundle destination)
  foreach(name ${ARGN})
    file(GLOB_RECURSE found "/usr/share/fonts/truetype/${name}" "/usr/share/tesseract-ocr/${name}")
    if(NOT found)
      message(FATAL_ERROR "${name} is to go into the wheel and is not installed: scripts/install_dependencies.sh")
    endif()
    list(GET found 0 first)
    install(FILES "${first}" DESTINATION "plimsoll/${destination}" COMPONENT program)
  endforeach()
endfunction()
plimsoll_bundle(share/plimsoll/fonts DejaVuSans.ttf DejaVuSans-Bold.ttf DejaVuSerif.ttf DejaVuSerif-Bold.ttf
  DejaVuSansMono.ttf DejaVuSansMono-Bold.ttf LiberationSans-Regular.ttf LiberationSans-Bold.ttf
  LiberationSerif-Regular.ttf LiberationSerif-Bold.ttf LiberationMono-Regular.ttf LiberationMono-Bold.ttf)
if(PLIMSOLL_TESSERACT_LIBRARY)
  plimsoll_bundle(share/plimsoll/tessdata eng.traineddata)
  find_file(PLIMSOLL_TESSERACT_FILE "${PLIMSOLL_TESSERACT_LIBRARY}" PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE} /usr/lib REQUIRED
    NO_DEFAULT_PATH)
  get_filename_component(real "${PLIMSOLL_TESSERACT_FILE}" REALPATH)
  install(FILES "${real}" DESTINATION plimsoll/lib RENAME "${PLIMSOLL_TESSERACT_LIBRARY}" COMPONENT program)
endif()
